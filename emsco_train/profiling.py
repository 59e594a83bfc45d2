"""What acquirers cost: its home is `emsco_train.costs.profiling`."""

from emsco_train.costs.profiling import ClockName, Profile, Statistic, TimeUnit, profile

__all__ = ["ClockName", "Profile", "Statistic", "TimeUnit", "profile"]
