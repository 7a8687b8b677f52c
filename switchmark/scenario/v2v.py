"""The scenario `v2v`: from one node of the environment to another through the switch.

It has the nodes and ports of `pairs-1`, under the name in the literature.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)
