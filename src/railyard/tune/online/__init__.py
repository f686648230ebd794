"""Settings of a fabric that change while traffic runs, by what is measured of it."""
