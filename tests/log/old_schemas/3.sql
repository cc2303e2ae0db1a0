PRAGMA page_size = 2048;
PRAGMA application_id = 1114989668;
BEGIN;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "blob_refs" VALUES('3eeb13e7fa165b17238ade63eaacf65bde1dcf6663db3e21194bc3b7facf8f53',1);
INSERT INTO "blob_refs" VALUES('ad6985d1b600a90f5f5024bdaaebc359a5856d4b02c55af06140fbffd605baf0',2);
INSERT INTO "blob_refs" VALUES('f0a71ac9d0b60f9b387f0a3997acdccc44fe420107b3e65f07a50483965c63c1',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N85XT3E11KSKXFKXQGEPFV/call_0_0',1,'3eeb13e7fa165b17238ade63eaacf65bde1dcf6663db3e21194bc3b7facf8f53');
INSERT INTO "claims" VALUES(2,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET/call_0_0',1,'f0a71ac9d0b60f9b387f0a3997acdccc44fe420107b3e65f07a50483965c63c1');
INSERT INTO "claims" VALUES(2,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET/call_1_0',1,'ad6985d1b600a90f5f5024bdaaebc359a5856d4b02c55af06140fbffd605baf0');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935813952,NULL,'session_started','{"sessionId":"sess_01M7N85XR7TXN6XNN1D2Y10CNY","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935813956,'run_01M7N85XT3E11KSKXFKXQGEPFV','user_message','{"messageId":"msg_01M7N85XT1HMV2XAYB3E0CATWE","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935813956,'run_01M7N85XT3E11KSKXFKXQGEPFV','run_started','{"runId":"run_01M7N85XT3E11KSKXFKXQGEPFV","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":1}');
INSERT INTO "events" VALUES(1,4,1794935813968,'run_01M7N85XT3E11KSKXFKXQGEPFV','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935813968,'run_01M7N85XT3E11KSKXFKXQGEPFV','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935813968,'run_01M7N85XT3E11KSKXFKXQGEPFV','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3840}');
INSERT INTO "events" VALUES(1,7,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_message','{"messageId":"asst_01M7N85XT3E11KSKXFKXQGEPFV.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_done','{"messageId":"asst_01M7N85XT3E11KSKXFKXQGEPFV.1"}');
INSERT INTO "events" VALUES(1,11,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.013,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935813969,'run_01M7N85XT3E11KSKXFKXQGEPFV','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,14,1794935814005,'run_01M7N85XT3E11KSKXFKXQGEPFV','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935814048,'run_01M7N85XT3E11KSKXFKXQGEPFV','approval_received','{"approvalId":"appr_01M7N85XWS6QXBR6ZPVCW20VQK","decision":"approve","by":"policy","callId":"call_0_0","digest":"3eeb13e7fa165b17238ade63eaacf65bde1dcf6663db3e21194bc3b7facf8f53"}');
INSERT INTO "events" VALUES(1,16,1794935814048,'run_01M7N85XT3E11KSKXFKXQGEPFV','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"3eeb13e7fa165b17238ade63eaacf65bde1dcf6663db3e21194bc3b7facf8f53"}');
INSERT INTO "events" VALUES(1,17,1794935814069,'run_01M7N85XT3E11KSKXFKXQGEPFV','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":15,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,18,1794935814076,'run_01M7N85XT3E11KSKXFKXQGEPFV','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":1,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,20,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','phase','{"name":"tool_execution","durationMs":108.0}');
INSERT INTO "events" VALUES(1,21,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3894}');
INSERT INTO "events" VALUES(1,24,1794935814077,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_message','{"messageId":"asst_01M7N85XT3E11KSKXFKXQGEPFV.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','assistant_done','{"messageId":"asst_01M7N85XT3E11KSKXFKXQGEPFV.2"}');
INSERT INTO "events" VALUES(1,28,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.122,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,30,1794935814078,'run_01M7N85XT3E11KSKXFKXQGEPFV','run_complete','{"runId":"run_01M7N85XT3E11KSKXFKXQGEPFV","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935814886,NULL,'session_started','{"sessionId":"sess_01M7N85YNF757SS4KPSH7Z54ZB","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935814888,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','user_message','{"messageId":"msg_01M7N85YQ8TVDGDZ50SYQ866ZD","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935814888,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','run_started','{"runId":"run_01M7N85YQ8X7CHKQ0EZ6VJF3ET","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":1}');
INSERT INTO "events" VALUES(2,4,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3841}');
INSERT INTO "events" VALUES(2,7,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','assistant_message','{"messageId":"asst_01M7N85YQ8X7CHKQ0EZ6VJF3ET.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','assistant_done','{"messageId":"asst_01M7N85YQ8X7CHKQ0EZ6VJF3ET.1"}');
INSERT INTO "events" VALUES(2,9,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','usage','{"turn":1,"inputTokens":203,"outputTokens":10,"context":{"used":213,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":213,"toolCalls":0,"seconds":0.02,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','phase','{"name":"streaming","durationMs":0.0}');
INSERT INTO "events" VALUES(2,11,1794935814908,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,12,1794935814945,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935814969,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','approval_received','{"approvalId":"appr_01M7N85YSPGMKXXKBTAVE2Q3G2","decision":"approve","by":"policy","callId":"call_0_0","digest":"f0a71ac9d0b60f9b387f0a3997acdccc44fe420107b3e65f07a50483965c63c1"}');
INSERT INTO "events" VALUES(2,14,1794935814969,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"f0a71ac9d0b60f9b387f0a3997acdccc44fe420107b3e65f07a50483965c63c1"}');
INSERT INTO "events" VALUES(2,15,1794935814995,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":16,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,16,1794935814995,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','phase','{"name":"tool_execution","durationMs":87.0}');
INSERT INTO "events" VALUES(2,17,1794935814995,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935814995,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935814995,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3872}');
INSERT INTO "events" VALUES(2,20,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','assistant_message','{"messageId":"asst_01M7N85YQ8X7CHKQ0EZ6VJF3ET.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','assistant_done','{"messageId":"asst_01M7N85YQ8X7CHKQ0EZ6VJF3ET.2"}');
INSERT INTO "events" VALUES(2,22,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','usage','{"turn":2,"inputTokens":216,"outputTokens":10,"context":{"used":226,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":439,"toolCalls":1,"seconds":0.108,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(2,24,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,25,1794935814996,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935814997,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','approval_received','{"approvalId":"appr_01M7N85YTN3T5A5ZKRDBJH5GPM","decision":"approve","by":"policy","callId":"call_1_0","digest":"ad6985d1b600a90f5f5024bdaaebc359a5856d4b02c55af06140fbffd605baf0"}');
INSERT INTO "events" VALUES(2,27,1794935814997,'run_01M7N85YQ8X7CHKQ0EZ6VJF3ET','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"ad6985d1b600a90f5f5024bdaaebc359a5856d4b02c55af06140fbffd605baf0"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N85XT1HMV2XAYB3E0CATWE',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N85YQ8TVDGDZ50SYQ866ZD',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N85XR7TXN6XNN1D2Y10CNY','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed',NULL,1794935813946,1794935814078,1,30,1,NULL);
INSERT INTO "sessions" VALUES(2,'sess_01M7N85YNF757SS4KPSH7Z54ZB','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running',NULL,1794935814868,1794935814997,1,27,1,'elsewhere:::1::0000000000000000');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('0637e4e1a63958489195102f6a78525b1f26923f2dc66ef9d7aaf3a66da27b85',2,'driver',NULL);
INSERT INTO "tokens" VALUES('4b5d81cf5046678e716e2d9508e63b12a1bf9afa44e55a517614b759d97d702a',1,'driver',NULL);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
PRAGMA user_version = 3;
COMMIT;
