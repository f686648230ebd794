"""What a little more is worth: a microsecond of a hop, a tail, a nine of availability, the network's share, carbon."""
