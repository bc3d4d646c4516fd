"""Renders templates by jinja2 as transformers sets it up: python3 chat_oracle.py < questions.json > answers.json.

Beyond transformers, as llama.cpp does, lists may be changed, texts be read by `from_json`, and `map` gives lists to
`tojson`. A question is [template, values]; an answer [text] or [null, what the error says].
"""
import inspect
import json
import sys
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import SandboxedEnvironment


class Generation(Extension):
    """{% generation %}: what it holds is what the assistant says."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    form = {"indent": indent, "separators": separators, "sort_keys": sort_keys, "ensure_ascii": ensure_ascii}
    return json.dumps(list(x) if inspect.isgenerator(x) else x, **form)


env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda format: datetime(2024, 7, 6, 15, 4, 5).strftime(format)

compiled = {}


def answer(template, values):
    try:
        if template not in compiled:
            compiled[template] = env.from_string(template)
        return [compiled[template].render(**values)]
    except Exception as error:
        return [None, f"{type(error).__name__}: {error}"]


print(json.dumps([answer(*question) for question in json.load(sys.stdin)]))
