"""The scenario `p2v`: from a tester into the environment: traffic that a host receives."""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.WIRE, NodePlace.ENVIRONMENT)
