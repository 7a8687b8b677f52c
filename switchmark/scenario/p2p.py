"""The scenario `p2p`: from tester to tester through the switch, without other applications.

Both ends are wire ends: a tester outside of the environment stands in for one behind a
physical port.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.WIRE)
