"""Which combinations cannot be, and why. A reason ends with what to do.

`switch.py`: what a switch cannot do of a sweep. `layout.py`: scenario, environment, ports and
hosts; `between.py`: two hosts. `traffic.py`: frames, loads and times. `generator.py`: foreign
instruments. `times.py`: all trials together. `pool.py`: many testbeds. `combination.py`: a cell of
docs/combinations.md.

What one method or one instrument alone cannot do is said in its own file, and asked for here:
`Method.refusals`, `Method.one_host` and `Method.reads`, `Instrument.refusals`. What a testbed file
or this machine says (the ends of a cable, the cores) is known to the plan alone, which asks
`cable_problem` and places cores before anything is touched. What comes after a plan asserts what is
refused here.
"""
