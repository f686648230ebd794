"""Models of the catalogue read from Hugging Face's `config.json`."""
