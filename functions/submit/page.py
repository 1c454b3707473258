"""The page on which the API can be tried, on the stage `local` alone: Swagger UI, showing our own description."""

from pathlib import Path

from aws_lambda_powertools.event_handler.openapi import swagger_ui

FILES = Path(swagger_ui.__file__).parent


def page(description: str) -> str:
    """Return the page as HTML, scripts and styles in it; nothing is loaded from elsewhere.

    The framework's own page describes its own errors (422), which this API does not give.
    """
    script, style = ((FILES / f"swagger-ui{name}").read_text() for name in ("-bundle.min.js", ".min.css"))
    return swagger_ui.generate_swagger_html(
        spec=description.replace("</", "<\\/"),  # it stands in a script
        swagger_js=script,
        swagger_css=style,
        swagger_base_url="",
        oauth2_config=None,
    )
