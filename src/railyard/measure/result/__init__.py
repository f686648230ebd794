"""The typed result: models of `result.json`, its JSON schema, and how it is read.

Importing this package imports Pydantic: what must start fast imports from it where the result is made or read.
"""
