"""What acquirers cost: run them on sample items, measure, and write a costs file. docs/profiling.md explains the method."""

from emsco_train.costs.profiling.clock import ClockName
from emsco_train.costs.profiling.cost_profile import Profile, TimeUnit
from emsco_train.costs.profiling.profiler import profile
from emsco_train.costs.profiling.timings import Statistic

__all__ = ["ClockName", "Profile", "Statistic", "TimeUnit", "profile"]
