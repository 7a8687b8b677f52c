"""The scenario `p2v`: from a wire into the environment: traffic that a host receives."""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.ENVIRONMENT)
