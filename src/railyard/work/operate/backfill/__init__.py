"""Who may overtake a job that waits for nodes. One file each."""
