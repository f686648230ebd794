"""What commands other than `run` answer: the documents that they keep, and that reports and the page show."""
