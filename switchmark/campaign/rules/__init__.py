"""What cannot be combined, and why: asked here and nowhere else. A reason ends with what to do.

`switch.py`: what a switch cannot do of a sweep. `layout.py`: scenario, environment, ports and
hosts. `traffic.py`: frames, loads and times. `times.py`: all trials together.
`combination.py`: a cell of docs/combinations.md.
"""
