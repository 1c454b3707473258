"""The API: who gets in, and what is refused before it is deployed."""

import json

import pytest

from tests.template import Deployment, deployed


@pytest.mark.parametrize(("authorizer", "kind"), [("none", "NONE"), ("iam", "AWS_IAM"), ("jwt", "JWT")])
def test_all_but_four_public_reads_is_behind_the_authorizer(authorizer: str, kind: str) -> None:
    """B-28: nobody gets past the gateway without what it verified."""
    api = deployed(Stage="local", Authorizer=authorizer, JwtIssuer="https://issuer.example", JwtAudience="a,b")
    routes = {r["RouteKey"]: r for r in api.of_type("AWS::ApiGatewayV2::Route").values()}
    public = {"GET /health", "GET /readyz", "GET /version", "GET /openapi.json"}
    assert set(routes) == {"ANY /v1/{proxy+}", "$default"} | public
    assert {key for key, route in routes.items() if route["AuthorizationType"] != kind} == (
        set() if kind == "NONE" else public
    )
    assert {"AuthorizerId" in routes[key] for key in set(routes) - public} == {kind == "JWT"}
    assert {route["Target"] for route in routes.values()} == {"integrations/${ApiIntegration}"}


def test_a_token_is_checked_against_issuer_and_audiences() -> None:
    """B-28: by the gateway, before any code of ours runs."""
    api = deployed(Authorizer="jwt", JwtIssuer="https://issuer.example", JwtAudience="a,b")
    [authorizer] = api.of_type("AWS::ApiGatewayV2::Authorizer").values()
    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["JwtConfiguration"] == {"Issuer": "https://issuer.example", "Audience": ["a", "b"]}
    assert deployed(Authorizer="iam").of_type("AWS::ApiGatewayV2::Authorizer") == {}


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ({"Stage": "local", "Authorizer": "none"}, set()),
        ({"Stage": "local", "Authorizer": "iam"}, set()),
        ({"Stage": "dev", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Stage": "staging", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Stage": "prod", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Authorizer": "jwt"}, {"TokensNeedAnIssuerAndAnAudience"}),
        ({"Authorizer": "jwt", "JwtIssuer": "https://i.example"}, {"TokensNeedAnIssuerAndAnAudience"}),
        ({"Authorizer": "jwt", "JwtIssuer": "https://i.example", "JwtAudience": "a"}, set()),
        ({"VpcSubnetIds": "subnet-0a"}, {"SubnetsNeedSecurityGroups"}),
        ({"VpcSubnetIds": "subnet-0a", "VpcSecurityGroupIds": "sg-0c"}, set()),
        ({}, set()),
    ],
)
def test_rules_refuse_what_would_be_open_or_half_configured(given: dict[str, str], broken: set[str]) -> None:
    assert deployed(**given).broken_rules() == broken


def test_the_api_is_throttled_and_its_access_log_has_the_request_id(aws: Deployment) -> None:
    stage = aws.properties("ApiStage")
    assert stage["StageName"] == "$default"
    assert stage["AutoDeploy"] is True
    assert int(stage["DefaultRouteSettings"]["ThrottlingRateLimit"]) == 100
    assert int(stage["DefaultRouteSettings"]["ThrottlingBurstLimit"]) == 200
    assert "log-group:${ApiLogGroup}" in stage["AccessLogSettings"]["DestinationArn"]
    line = json.loads(stage["AccessLogSettings"]["Format"])
    assert line["requestId"] == "$context.requestId"
    assert line["status"] == "$context.status"


def test_the_gateway_calls_submit_with_payload_2_and_may_do_so(aws: Deployment) -> None:
    integration = aws.properties("ApiIntegration")
    assert integration["IntegrationType"] == "AWS_PROXY"
    assert integration["PayloadFormatVersion"] == "2.0"
    assert integration["IntegrationUri"] == "${SubmitFunction.Arn}"
    permission = aws.properties("ApiPermission")
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"].endswith(":${Api}/*")
