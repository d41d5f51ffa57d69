"""Which machine of a cluster a case goes to, and what becomes of it there: with scripted machines, without Ray."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import onnx
import pytest

from ortbench.jobs.cluster import machine
from ortbench.jobs.cluster.dispatch import Dispatch
from ortbench.jobs.cluster.orders import Done, Failed, Joining, Lost, Order, Remark, Started, TaskFailed, TaskLost, Work
from ortbench.jobs.cluster.parcels import moved, parcel_of, parcels_of
from ortbench.jobs.cluster.places import Occupancy, Place, Unusable, able, place_of, why_none
from ortbench.jobs.cluster.rays_protocol import Rays
from ortbench.suite.job import Job
from ortbench.suite.needs import Demand
from ortbench.suite.record import SKIPPED, Record
from tests.conftest import MODELS
