"""The scenario `p2p`: from wire to wire through the switch, no application beside it.

Both ends are wire ends: a tester outside of the environment stands in for one behind a
physical port.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.WIRE)
