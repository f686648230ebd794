"""One file a kind of assertion, called as the word that it begins with; `figure` takes the names of figures."""
