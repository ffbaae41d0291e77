// What is wrong is an exception of the SDK's own, which says whether a retry can help.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText } from "ai";

const { SERVER_URL, MODEL } = process.env;
const provider = createOpenAICompatible({ name: "sapwood", baseURL: `${SERVER_URL}/v1` });

const refused = async (request) => {
  const outcome = await generateText({ model: provider(MODEL), prompt: "Hello", ...request }).catch((error) => error);
  assert.ok(APICallError.isInstance(outcome), String(outcome));
  assert.equal(outcome.isRetryable, false);
  return [outcome.statusCode, outcome.data.error];
};

const [missing, unknown] = await refused({ model: provider("other") });
assert.deepEqual([missing, unknown.code], [404, "model_not_found"]);
const [bad, negative] = await refused({ temperature: -1 });
assert.deepEqual([bad, negative.param], [400, "temperature"]);
const [long, exceeded] = await refused({ prompt: "word ".repeat(9000) });
assert.deepEqual([long, exceeded.code], [400, "context_length_exceeded"]);
