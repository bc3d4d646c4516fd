/** The namespace `nn`: layers, optimizers, data sets. @module */
export * as nn from "./nn.ts";
