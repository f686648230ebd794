"""Addresses and files that devices get when they first boot: DHCP as Kea serves it, and what each then fetches."""
