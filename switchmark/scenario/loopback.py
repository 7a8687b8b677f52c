"""The scenario `loopback`: from a tester through a chain of N VNFs to another (`loopback-N`).

The switch is crossed N + 1 times. Several chains beside each other, each with wires of its
own, are `chains-MxN`: M chains of N VNFs. What the VNFs are is the key `vnf`. With the key `split`
they have one sender and one receiver in common (split.py).
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.WIRE)
