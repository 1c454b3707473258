"""Who calls: what the gateway verified, and nothing else."""

from typing import Any

import pytest

from fetcher.errors import InvalidRequestError, Problem
from fetcher.settings import load
from submit.caller import caller_of, product_of
from submit.scopes import check


def jwt(**claims: str) -> dict[str, Any]:
    """The context of a request with a verified token."""
    return {"http": {"method": "GET", "path": "/v1/fetcher"}, "authorizer": {"jwt": {"claims": claims}}}


def test_a_token_names_tenant_products_and_subject() -> None:
    """The claims' names are the deployment's."""
    env = {"FETCHER_AUTHORIZER": "jwt", "FETCHER_TENANT_CLAIM": "org", "FETCHER_PRODUCTS_CLAIM": "apps"}
    found = caller_of(jwt(org="shop", apps="Sales payments", sub="u1"), load(env))
    assert (found.tenant, found.who, found.products) == ("shop", "jwt:u1", frozenset({"sales", "payments"}))
    assert caller_of(jwt(org="shop"), load(env)).products is None
    with pytest.raises(InvalidRequestError) as refused:
        caller_of(jwt(tenant="shop"), load(env))
    assert refused.value.code == "FET-2008"


def test_a_signature_names_its_principal_and_claims_count_for_nothing_there() -> None:
    """Mode iam: one tenant, all products."""
    context = {
        "authorizer": {"iam": {"userArn": "arn:aws:iam::000000000000:user/x"}, "jwt": {"claims": {"tenant": "a"}}}
    }
    found = caller_of(context, load({"FETCHER_AUTHORIZER": "iam"}))
    assert (found.tenant, found.who) == ("default", "iam:arn:aws:iam::000000000000:user/x")
    assert found.products is None
    assert caller_of({}, load({"FETCHER_AUTHORIZER": "none"})).who == "none:nobody"


def test_a_caller_makes_things_of_its_products_alone() -> None:
    """FET-2013."""
    found = caller_of(jwt(tenant="a", products="sales"), load({"FETCHER_AUTHORIZER": "jwt"}))
    found.check_product("sales", Problem("", ""))
    with pytest.raises(InvalidRequestError) as refused:
        found.check_product("payments", Problem("/x", "not yours"))
    assert (refused.value.code, refused.value.problems) == ("FET-2013", (Problem("/x", "not yours"),))
    assert not found.may_see(None)


@pytest.mark.parametrize("scope", ["", "jobs", "jobs:write", "jobs:reader", "xjobs:read", "JOBS:READ", "jobs:read,x"])
def test_a_scope_is_a_whole_word(scope: str) -> None:
    """RFC 6749: separated by blanks, compared exactly."""
    with pytest.raises(InvalidRequestError):
        check(jwt(scope=scope))
    check(jwt(scope=f"openid {scope} jobs:read"))


def test_a_product_is_trimmed_and_lower_case() -> None:
    """R-000-7."""
    assert product_of("  PayMents_1-a ") == "payments_1-a"
    for bad in (None, "", " ", "a b", "ä", "x" * 101):
        with pytest.raises(InvalidRequestError):
            product_of(bad)
