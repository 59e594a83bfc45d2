"""What acquirers cost: run them on sample items, measure, and write a costs file.

::

    clock       CPU or wall time, with what reading it takes and the least that it can tell
    calls       the acquirers as they are called for one item, each call timed
    sharing     which features are paid for together: those of one call, and the groups that the user names
    schedule    what is called on which fresh item, in shuffled order
    timings     what was measured;  figures: one price and its spread out of many timings
    cautions    what the user should know before believing the prices
    result      `Profile`: prices, cost model, costs file
    reckoning   from timings to the profile;  measuring: `profile`, the face of all of it

``emsco-profile`` is the command-line face; docs/profiling.md explains the measure.
"""

from emsco_train.costs.profiling.clock import ClockName
from emsco_train.costs.profiling.cost_profile import Profile, TimeUnit
from emsco_train.costs.profiling.profiler import profile
from emsco_train.costs.profiling.spread import Statistic

__all__ = ["ClockName", "Profile", "Statistic", "TimeUnit", "profile"]
