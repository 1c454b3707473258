"""Each function's own role, assumed, tried against everything: what it needs is given, all else is refused.

The endpoint enforces the roles as deployed. A call that is allowed may still fail for a reason of its own (an object
that is not there, a value made wrong on purpose, so that nothing happens); one that is refused says so by name. Log
streams are left to `tests/infra`: AWS compares such a call with the stream's ARN, this endpoint with the group's.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.infra.test_template_rights import CONNECTION_SECRETS, LOG_ACTIONS, RIGHTS
from tests.stack import Stack

pytestmark = pytest.mark.stack

REFUSALS = {"AccessDenied", "AccessDeniedException"}
ROLES = tuple(RIGHTS)
OTHER_SECRET, NO_RESOURCE = "a secret of somebody else", "*"
TABLES = {"${MainTable.Arn}": "main", "${ConnectionsTable.Arn}": "connections"}
QUEUES = {"${WorkQueue.Arn}": "work", "${NotificationsQueue.Arn}": "notifications", "${WorkDeadQueue.Arn}": "workDead"}
PREFIXES = ("requests", "results", "manifests", "bindings")
THROUGH_S3 = {"ExtractRole": {("kms:GenerateDataKey", "${Key.Arn}")}}
"""Rights that count only when S3 asks for the role; the role itself is refused."""

LISTING = {"SubmitRole": {("s3:ListBucket", "names of results")}}
"""Who may list more of the bucket than manifests; a right is named by its resource, which is the same bucket."""

NEVER = {
    "SubmitRole": {
        ("s3:PutObject", "${Bucket.Arn}/results/*"),
        ("s3:PutObject", "${Bucket.Arn}/manifests/*"),
        ("secretsmanager:GetSecretValue", "${MasterSecret.Id}"),
        ("events:PutEvents", "${Bus.Arn}"),
        ("sqs:ReceiveMessage", "${WorkQueue.Arn}"),
    },
    "ExtractRole": {
        ("dynamodb:PutItem", "${ConnectionsTable.Arn}"),
        ("dynamodb:UpdateItem", "${ConnectionsTable.Arn}"),
        ("dynamodb:DeleteItem", "${ConnectionsTable.Arn}"),
        ("events:PutEvents", "${Bus.Arn}"),
        ("s3:PutObject", "${Bucket.Arn}/requests/*"),
        ("sqs:ReceiveMessage", "${NotificationsQueue.Arn}"),
    },
    "NotifyRole": {
        ("dynamodb:GetItem", "${ConnectionsTable.Arn}"),
        ("s3:GetObject", "${Bucket.Arn}/results/*"),
        ("secretsmanager:GetSecretValue", CONNECTION_SECRETS),
        ("secretsmanager:GetSecretValue", "${MasterSecret.Id}"),
        ("kms:Decrypt", "${Key.Arn}"),
    },
    "SweeperRole": {
        ("kms:Decrypt", "${Key.Arn}"),
        ("secretsmanager:GetSecretValue", CONNECTION_SECRETS),
        ("dynamodb:GetItem", "${ConnectionsTable.Arn}"),
        ("s3:GetObject", "${Bucket.Arn}/results/*"),
        ("events:PutEvents", "${Bus.Arn}"),
    },
    "DeadLetterRole": {
        ("kms:Decrypt", "${Key.Arn}"),
        ("secretsmanager:GetSecretValue", "${MasterSecret.Id}"),
        ("dynamodb:GetItem", "${ConnectionsTable.Arn}"),
        ("s3:GetObject", "${Bucket.Arn}/results/*"),
    },
}
"""What would be a hole, said a second time and by hand: the list of rights alone could be wrong in both places."""

Clients = Callable[[str], Any]
Call = Callable[[Clients], Any]


@dataclass(frozen=True, slots=True)
class World:
    """The deployed stack: ids by the template's names, and a session for each role."""

    stack: Stack
    ids: Mapping[str, str]
    clients: Mapping[str, Clients]
    secret: str
    other: str
    sealed: bytes
    context: Mapping[str, str]

    def calls(self) -> dict[tuple[str, str], Call]:
        """Everything that is tried, by action and by the resource as the template spells it."""
        return {
            **self._tables(),
            **self._queues(),
            **self._bucket(),
            **self._keys(),
            ("events:PutEvents", "${Bus.Arn}"): lambda of: self._published(of, self.stack["bus"]),
            ("events:PutEvents", "the account's own bus"): lambda of: self._published(of, "default"),
            ("lambda:InvokeFunction", NO_RESOURCE): lambda of: of("lambda").invoke(
                FunctionName=self.ids["SweeperFunction"], InvocationType="DryRun"
            ),
            ("iam:ListRoles", NO_RESOURCE): lambda of: of("iam").list_roles(),
        }

    def _tables(self) -> dict[tuple[str, str], Call]:
        made: dict[tuple[str, str], Call] = {}
        key = {"PK": {"S": f"REFUSALS#{uuid4()}"}, "SK": {"S": "ANY"}}
        for arn, name in TABLES.items():
            table = self.stack["tables"][name]
            asked: Mapping[str, tuple[str, Mapping[str, Any]]] = {
                "PutItem": ("put_item", {"Item": key}),
                "GetItem": ("get_item", {"Key": key}),
                "UpdateItem": ("update_item", {"Key": key}),
                "DeleteItem": ("delete_item", {"Key": key}),
                "Query": ("query", _where("PK")),
                "Scan": ("scan", {"Limit": 1}),
                "DescribeTable": ("describe_table", {}),
                "DeleteTable": ("delete_table", {"TableName": f"{table}-none"}),
            }
            for action, (method, options) in asked.items():
                made[f"dynamodb:{action}", arn] = _asking("dynamodb", method, {"TableName": table, **options})
            for index, hashed in (("GSI1", "GSI1PK"), ("GSI2", "GSI2PK")):
                if (name, index) != ("connections", "GSI2"):
                    options = {"TableName": table, "IndexName": index, **_where(hashed)}
                    made["dynamodb:Query", f"{arn}/index/{index}"] = _asking("dynamodb", "query", options)
        return made

    def _queues(self) -> dict[tuple[str, str], Call]:
        made: dict[tuple[str, str], Call] = {}
        for arn, name in QUEUES.items():
            # Wrong on purpose: a message that is really sent or taken would be another test's.
            asked: Mapping[str, tuple[str, Mapping[str, Any]]] = {
                "SendMessage": ("send_message", {"MessageBody": "none", "DelaySeconds": 100_000}),
                "ReceiveMessage": ("receive_message", {"MaxNumberOfMessages": 100}),
                "DeleteMessage": ("delete_message", {"ReceiptHandle": "none"}),
                "ChangeMessageVisibility": (
                    "change_message_visibility",
                    {"ReceiptHandle": "none", "VisibilityTimeout": 0},
                ),
                "GetQueueAttributes": ("get_queue_attributes", {"AttributeNames": ["QueueArn"]}),
                "PurgeQueue": ("purge_queue", {"QueueUrl": f"{self.stack['queues'][name]}-none"}),
            }
            for action, (method, options) in asked.items():
                url = self.stack["queues"][name]
                made[f"sqs:{action}", arn] = _asking("sqs", method, {"QueueUrl": url, **options})
        return made

    def _bucket(self) -> dict[tuple[str, str], Call]:
        made: dict[tuple[str, str], Call] = {}
        bucket = self.stack["bucket"]
        for prefix in PREFIXES:
            at = {"Bucket": bucket, "Key": f"{prefix}/refusals/{uuid4()}"}
            upload = {**at, "UploadId": "none"}
            arn = f"${{Bucket.Arn}}/{prefix}/*"
            made["s3:PutObject", arn] = _asking("s3", "put_object", {**at, "Body": b""})
            made["s3:GetObject", arn] = _asking("s3", "get_object", at)
            made["s3:DeleteObject", arn] = _asking("s3", "delete_object", at)
            made["s3:AbortMultipartUpload", arn] = _asking("s3", "abort_multipart_upload", upload)
        listed = {"Bucket": bucket, "MaxKeys": 1}
        made["s3:ListBucket", "${Bucket.Arn}"] = _asking("s3", "list_objects_v2", {**listed, "Prefix": "manifests/x"})
        made["s3:ListBucket", "names of results"] = _asking("s3", "list_objects_v2", {**listed, "Prefix": "results/"})
        return made

    def _keys(self) -> dict[tuple[str, str], Call]:
        key, context = {"KeyId": self.ids["Key"]}, {"EncryptionContext": dict(self.context)}
        read, made = "secretsmanager:GetSecretValue", {"SecretString": "none"}
        named = {name: {"SecretId": name} for name in (self.secret, self.other, self.ids["MasterSecret"])}
        return {
            ("kms:GenerateDataKey", "${Key.Arn}"): _asking(
                "kms", "generate_data_key", {**key, **context, "KeySpec": "AES_256"}
            ),
            ("kms:Decrypt", "${Key.Arn}"): _asking("kms", "decrypt", {**context, "CiphertextBlob": self.sealed}),
            ("kms:DescribeKey", "${Key.Arn}"): _asking("kms", "describe_key", key),
            ("kms:ScheduleKeyDeletion", "${Key.Arn}"): _asking("kms", "schedule_key_deletion", {"KeyId": str(uuid4())}),
            (read, CONNECTION_SECRETS): _asking("secretsmanager", "get_secret_value", named[self.secret]),
            (read, OTHER_SECRET): _asking("secretsmanager", "get_secret_value", named[self.other]),
            (read, "${MasterSecret.Id}"): _asking(
                "secretsmanager", "get_secret_value", named[self.ids["MasterSecret"]]
            ),
            ("secretsmanager:PutSecretValue", CONNECTION_SECRETS): _asking(
                "secretsmanager", "put_secret_value", {**named[self.secret], **made}
            ),
        }

    def _published(self, of: Clients, bus: str) -> Any:
        entry = {"Source": "refusals", "DetailType": "none", "Detail": "{}", "EventBusName": bus}
        return of("events").put_events(Entries=[entry])


def _asking(service: str, method: str, options: Mapping[str, Any]) -> Call:
    return lambda of: getattr(of(service), method)(**options)


def _where(name: str) -> Mapping[str, Any]:
    return {
        "KeyConditionExpression": "#k = :k",
        "ExpressionAttributeNames": {"#k": name},
        "ExpressionAttributeValues": {":k": {"S": "REFUSALS"}},
    }


@pytest.fixture(scope="module")
def world(stack: Stack) -> World:
    """Assume every role, as Lambda does; and make one secret where connections' lie, and one where they do not."""
    resources = stack.client("cloudformation").describe_stack_resources(StackName="fetcher")["StackResources"]
    ids = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    vault = stack.client("secretsmanager")
    names = [f"{prefix}refusals-{secrets.token_hex(4)}" for prefix in ("fetcher/connections/default/", "elsewhere/")]
    for name in names:
        vault.create_secret(Name=name, SecretString="none")
    context = {"tenant": "default", "connectionId": str(uuid4())}
    sealed = stack.client("kms").generate_data_key(KeyId=ids["Key"], KeySpec="AES_256", EncryptionContext=context)
    clients = {role: _assumed(stack, ids[role]) for role in ROLES}
    return World(stack, ids, clients, names[0], names[1], sealed["CiphertextBlob"], context)


def _assumed(stack: Stack, role: str) -> Clients:
    arn = f"arn:aws:iam::000000000000:role/{role}"
    given = stack.client("sts").assume_role(RoleArn=arn, RoleSessionName="refusals")["Credentials"]
    session = boto3.Session(
        given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=stack["region"]
    )
    opened: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in opened:
            opened[service] = session.client(service, endpoint_url=stack["endpointUrl"])  # type: ignore[call-overload]
        return opened[service]

    return client


def refused(call: Call, of: Clients) -> bool:
    """Whether the endpoint said that the role may not; any other failure is of what was asked."""
    try:
        call(of)
    except ClientError as error:
        return error.response["Error"]["Code"] in REFUSALS
    return False


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_given_what_it_needs_and_refused_all_else(world: World, role: str) -> None:
    """R-000-82, ecosystem §3: the whole table, each cell tried; it fails for one right more and for one less."""
    needed = {(action, name) for name, actions in RIGHTS[role].items() for action in actions - LOG_ACTIONS}
    calls = world.calls()
    assert needed <= set(calls), "a right that nothing here tries"
    needed |= LISTING.get(role, set())
    needed -= THROUGH_S3.get(role, set())
    outcome = {cell: not refused(call, world.clients[role]) for cell, call in calls.items()}
    given = {cell for cell, allowed in outcome.items() if allowed}
    assert given == needed
    assert len(outcome) - len(given) >= 37


@pytest.mark.parametrize("role", ROLES)
def test_what_would_be_a_hole_is_refused(world: World, role: str) -> None:
    """B-38, R-000-82: cells that no change of the list of rights may open."""
    assert NEVER[role]
    for cell in NEVER[role]:
        assert refused(world.calls()[cell], world.clients[role]), cell


def test_the_root_of_the_endpoint_may_do_all_of_it(world: World) -> None:
    """Else a call that always fails would pass for one that is refused."""
    of = partial(world.stack.client)
    assert not [cell for cell, call in world.calls().items() if refused(call, of)]
