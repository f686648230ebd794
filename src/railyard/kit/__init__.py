"""What every room uses: errors, units, files, records of fields, registries."""
