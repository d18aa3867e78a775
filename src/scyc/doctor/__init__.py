"""Whether this installation can train, and whether what a store holds is what was written: findings, a line each."""

from scyc.doctor.finding import Finding
from scyc.doctor.installation import installation
from scyc.doctor.stored import stored

__all__ = ["Finding", "installation", "stored"]
