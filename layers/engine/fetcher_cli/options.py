"""Options that several commands share."""

from typing import Annotated

import typer

Api = Annotated[str | None, typer.Option("--api", envvar="FETCHER_API", help="Address of the API.")]
Iam = Annotated[
    bool, typer.Option("--iam", envvar="FETCHER_IAM", help="Sign requests with your AWS credentials (SigV4).")
]
Product = Annotated[
    str | None, typer.Option("--product", envvar="FETCHER_PRODUCT", help="The product that owns the connections.")
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="HEX", envvar="FETCHER_VERIFY_KEY", help="Key that `derive-key` prints.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON as it is.")]
Stack = Annotated[
    str | None, typer.Option("--stack", help="A deployed CloudFormation stack, looked at with your credentials.")
]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
