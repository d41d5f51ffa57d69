"""What pyproject.toml cannot say: beside the packages that are found, the pages of docs/ are one, for `ortbench explain --more`."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["ortbench*"]), "ortbench.docs"])
