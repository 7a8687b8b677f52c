"""Which combinations cannot be, and why. A reason ends with what to do; nothing else decides it.

`switch.py`: what a switch cannot do of a sweep. `layout.py`: scenario, environment, ports and
hosts. `traffic.py`: frames, loads and times. `times.py`: all trials together. `combination.py`: a
cell of docs/combinations.md.
"""
