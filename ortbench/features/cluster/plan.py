from ortbench.plan.options import OTHERS, new_option

_HELP = "Spread the cases over a Ray cluster: auto, or its address."
OPTIONS = (new_option("ray", "ADDRESS", _HELP, OTHERS, commands=("suite",), is_in_suites=False),)
