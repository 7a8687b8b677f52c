"""The scenario `p2p`: from tester to tester through the switch, without other applications.

Both testers are outside of the environment, in place of testers behind physical ports.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.WIRE)
