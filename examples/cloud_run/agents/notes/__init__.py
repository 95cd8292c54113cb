"""An agent that keeps notes."""

from . import agent as agent
