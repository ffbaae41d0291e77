// Text, whole and streamed with usage.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const { SERVER_URL, MODEL } = process.env;
const provider = createOpenAICompatible({ name: "sapwood", baseURL: `${SERVER_URL}/v1`, includeUsage: true });
const prompt = "What is the capital of France?";
const request = { prompt, temperature: 0, maxOutputTokens: 30, maxRetries: 0 };

for (const model of [provider(MODEL), provider.completionModel(MODEL)]) {
  const whole = await generateText({ ...request, model });
  assert.match(whole.text, /Paris/);
  assert.equal(whole.usage.totalTokens, whole.usage.inputTokens + whole.usage.outputTokens);
  const stream = streamText({ ...request, model });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
}
