/** What renders chat templates, for the page: built to jinja.js, which the page's import map names. @module */
export { Environment, Interpreter, parse, tokenize } from "npm:@huggingface/jinja@0.5.11";
