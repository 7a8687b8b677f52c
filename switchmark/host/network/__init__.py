"""Networks that the bench did not make: their endpoints, devices, paths and limits.

Everything here only reads. `entered.py` opens endpoints, `state.py` reads a network namespace,
`path.py` follows the path between two endpoints, and `guard_rails.py` decides where the bench may
send traffic.
"""
