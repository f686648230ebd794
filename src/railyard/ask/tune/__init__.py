"""Settings and schedules that suit a given fabric."""
