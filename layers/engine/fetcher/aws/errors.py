"""What an error of AWS means, in one place: what is repeated, what is an answer, and whose fault the rest is.

Before any of this, botocore's standard mode has repeated throttling, 5xx and broken connections (three times
more, with backoff). What is not listed here is a failure of ours: submit answers 503, extract releases its
claim and its message comes back, the sweeper leaves the item due, the heartbeat tries again at its next beat.

`docs/reliability.md` shows every row, and a test holds the two against each other.
"""

from dataclasses import dataclass

from botocore.exceptions import ClientError


@dataclass(frozen=True, slots=True)
class Answers:
    """Codes of one service that mean the same, what follows them, and where AWS describes them."""

    service: str
    codes: frozenset[str]
    follows: str
    source: str

    def hold(self, code: str) -> bool:
        """Whether this is one of them."""
        return code in self.codes

    def include(self, error: ClientError) -> bool:
        """Whether an error carries one of them."""
        return self.hold(code_of(error))


def code_of(error: ClientError) -> str:
    """Return the service's own code of an error."""
    return str(error.response["Error"]["Code"])


CONDITION = Answers(
    "DynamoDB",
    frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"}),
    "the write was refused by its condition, which is an answer; a repeat that finds its own mark there was done",
    "Amazon DynamoDB API Reference, UpdateItem and TransactWriteItems",
)
CONFLICT = Answers(
    "DynamoDB",
    frozenset(
        {
            "TransactionConflict",
            "TransactionConflictException",
            "TransactionInProgressException",
            "ThrottlingError",
            "ProvisionedThroughputExceeded",
        }
    ),
    "no lost race: the same write, a transaction under the same token, up to six times, with jitter",
    "Amazon DynamoDB API Reference, TransactWriteItems and UpdateItem",
)
GONE = Answers(
    "S3",
    frozenset({"NoSuchUpload", "404", "NotFound", "NoSuchKey"}),
    "a completion looks whether the object is there whole, and is done then; an upload to go on with is begun again;"
    " an upload to abort is aborted already",
    "Amazon S3 API Reference, CompleteMultipartUpload and AbortMultipartUpload",
)
SPOILT = Answers(
    "S3",
    frozenset({"InvalidPart", "InvalidPartOrder"}),
    "a part is no more what was listed: a completion looks whether the object is there whole, and is done then;"
    " else the upload is begun again",
    "Amazon S3 API Reference, CompleteMultipartUpload",
)
EXISTS = Answers(
    "S3",
    frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}),
    "the object is there: done if it is whole",
    "Amazon S3 User Guide, conditional writes",
)
OF_ANOTHER = Answers(
    "KMS",
    frozenset({"InvalidCiphertextException", "IncorrectKeyException"}),
    "refused: the stored secret does not belong to this connection",
    "AWS KMS API Reference, Decrypt",
)
NOT_OURS = Answers(
    "Secrets Manager",
    frozenset(
        {
            "ResourceNotFoundException",
            "AccessDeniedException",
            "InvalidRequestException",
            "InvalidParameterException",
            "DecryptionFailure",
        }
    ),
    "refused: the secret that the connection refers to cannot be read; of the operator's own, what was read last is"
    " used",
    "AWS Secrets Manager API Reference, GetSecretValue",
)

ALL = (CONDITION, CONFLICT, GONE, SPOILT, EXISTS, OF_ANOTHER, NOT_OURS)
