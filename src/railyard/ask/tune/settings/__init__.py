"""Settings of the collective library and the fabric: searched on some draws, judged on others, exported."""
