"""What wrong settings of switches cost."""
