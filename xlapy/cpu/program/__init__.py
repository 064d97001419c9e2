"""From HLO to thunks: buffer assignment, liveness, outlining, collectives and host calls of a native program."""
