"""Conclusions from loads: clients, rates, queues and SLOs."""
