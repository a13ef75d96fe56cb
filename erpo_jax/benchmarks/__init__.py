"""Measurements that compare the project's parts with what users would otherwise run. Started by launch/bench.py."""
