"""The types of every response of /api/v1; the OpenAPI document is made from them.

Times are ISO 8601 in UTC. What is unknown is null, never 0.
"""
