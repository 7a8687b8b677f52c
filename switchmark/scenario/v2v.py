"""The scenario `v2v`: from one node of the environment to another through the switch.

The same nodes and ports as one of `pairs`, under the name that the literature gives it.
"""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.ENVIRONMENT, NodePlace.ENVIRONMENT)
