"""Queue disciplines: who is next. One file each."""
