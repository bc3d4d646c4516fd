/** The namespace `state`: weights by name, and files of them. @module */
export * as state from "./state.ts";
