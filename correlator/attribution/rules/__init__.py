"""The rules that come with Faultwire, one module a concern. Every `Rule` in this namespace is in force."""

from correlator.attribution.rules.early_gpu import *
from correlator.attribution.rules.early_host import *
from correlator.attribution.rules.early_network import *
from correlator.attribution.rules.early_scope import *
from correlator.attribution.rules.early_workload import *
from correlator.attribution.rules.extract_jobs import *
from correlator.attribution.rules.extract_kernel import *
from correlator.attribution.rules.extract_logs import *
from correlator.attribution.rules.extract_signals import *
from correlator.attribution.rules.final import *
from correlator.attribution.rules.job import *
from correlator.attribution.rules.node import *
