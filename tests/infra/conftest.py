"""The two deployments that most tests of the template look at."""

import pytest

from tests.template import Deployment, deployed


@pytest.fixture(scope="module")
def aws() -> Deployment:
    return deployed(Stage="prod", Authorizer="iam")


@pytest.fixture(scope="module")
def local() -> Deployment:
    return deployed(Stage="local", Authorizer="none")
