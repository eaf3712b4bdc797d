"""Renders the cases of data/templates/chat.json with transformers' own Jinja2; tests/template compares the C engine with them."""

import datetime
import json
import pathlib
import unittest

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

CASES = json.loads((pathlib.Path(__file__).parent.parent / "data/templates/chat.json").read_text())


def render(template):
    compiled = _compile_jinja_template(template)
    compiled.globals["strftime_now"] = datetime.datetime.fromtimestamp(1700000000).strftime
    return compiled.render(**CASES["fields"])


class ChatTemplates(unittest.TestCase):
    def test_jinja_renders_what_the_cases_expect(self):
        for template, expected in CASES["cases"]:
            with self.subTest(template=template):
                if expected is not None:
                    self.assertEqual(render(template), expected)
                    continue
                with self.assertRaises((jinja2.exceptions.TemplateError, TypeError)):
                    render(template)


if __name__ == "__main__":
    unittest.main()
