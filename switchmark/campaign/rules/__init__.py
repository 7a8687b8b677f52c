"""Impossible combinations: each refusal has a reason and a remedy.

`switch.py`: parts of a sweep that a switch cannot do. `layout.py`: scenario, environment, ports and
hosts; `between.py`: two hosts. `traffic.py`: frames, loads and times. `generator.py`: foreign
instruments. `existing.py`: networks of the user. `times.py`: all trials together. `pool.py`: many
testbeds. `combination.py`: a cell of docs/combinations.md.

Each method and each instrument has its own refusals in its own file: `Method.refusals`,
`Method.one_host` and `Method.reads`, `Instrument.refusals`. Only the plan knows the testbed file
and this machine (the ends of a cable, the cores); it calls `cable_problem` and places cores before
anything changes. Code after the plan asserts the conditions that are refused here.
"""
