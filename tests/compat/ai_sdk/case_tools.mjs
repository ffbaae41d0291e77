// Tools, whole and streamed; an output as a schema of zod.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, streamText, tool } from "ai";
import { z } from "zod";

const { SERVER_URL, MODEL } = process.env;
const provider = createOpenAICompatible({
  name: "sapwood",
  baseURL: `${SERVER_URL}/v1`,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const Weather = z.object({ city: z.enum(["Paris", "Rome"]), days: z.number().int().min(1).max(9) });
const prompt = "What is the weather in Paris?";
const request = { model: provider(MODEL), prompt, temperature: 0, maxOutputTokens: 100, maxRetries: 0 };
const tools = { get_weather: tool({ description: "The weather.", inputSchema: Weather }) };
const forced = { ...request, tools, toolChoice: { type: "tool", toolName: "get_weather" } };

const whole = await generateText(forced);
const stream = streamText(forced);
await stream.consumeStream();
const calls = await stream.toolCalls;
assert.ok(calls.length >= 1);
assert.equal(calls[0].toolName, "get_weather");
Weather.parse(calls[0].input);
assert.deepEqual(calls.map((call) => call.input), whole.toolCalls.map((call) => call.input));

const structured = await generateText({ ...request, output: Output.object({ schema: Weather }) });
Weather.parse(structured.output);
const streamed = streamText({ ...request, output: Output.object({ schema: Weather }) });
assert.deepEqual(await streamed.output, structured.output);
