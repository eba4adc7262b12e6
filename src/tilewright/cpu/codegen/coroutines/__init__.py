"""Agents, queues, and tile blocks that wait for others."""
