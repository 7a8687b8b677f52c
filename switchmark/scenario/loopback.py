"""The scenario `loopback-N`: from one tester through a chain of N VNFs to another tester.

The frames cross the switch N + 1 times. `chains-MxN` is M parallel chains of N VNFs, each with its
own testers. The key `vnf` sets the program of the VNFs. With the key `split`, the chains share one
sender and one receiver (split.py).
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.WIRE)
